//! The parts of a store that are asked for, of any type.

use super::{
    BoxFuture, CarriedTeam, Deleted, Deletion, Expiry, Membership, RunRow, StoreError,
    store_methods::with_store_methods,
};
use crate::vocabulary::{JournalId, RunId, SessionId, Timestamp};

macro_rules! erased_parts {
    (
        required { $($required:tt)* }
        optional { $($asked:ident, $erased:ident, $ask:ident, $doing:literal {
            $(fn $method:ident($($with:ident: $kind:ty),*) -> $answer:ty;)*
        })* }
    ) => {
        $(
            #[doc = concat!("A [`", stringify!($asked), "`] with boxed futures. Every type with the one has the other.")]
            pub trait $erased: Send + Sync {
                $(
                    #[doc = concat!("See [`", stringify!($asked), "::", stringify!($method), "`].")]
                    fn $method(&self, $($with: $kind),*) -> BoxFuture<'_, Result<$answer, StoreError>>;
                )*
            }

            impl<S: $asked> $erased for S {
                $(
                    fn $method(&self, $($with: $kind),*) -> BoxFuture<'_, Result<$answer, StoreError>> {
                        Box::pin($asked::$method(self, $($with),*))
                    }
                )*
            }
        )*
    };
}

with_store_methods!(erased_parts);
