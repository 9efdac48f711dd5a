//! A store with boxed futures.

use std::sync::Arc;

use super::{
    Batch, BoxFuture, Claim, Committed, DynDeletion, DynMembership, Index, Inventory, Journals,
    MailboxItem, Mailboxes, Notice, RunFilter, RunRow, SessionFilter, SessionRow, State, StateSlot,
    StateValue, Store, StoreError, StoredLine, TreeLine, store_methods::with_store_methods,
};
use crate::vocabulary::{Digest, JournalId, RunId, SessionId};

/// The results of batches that were committed together.
pub(crate) type Commits = Result<Vec<Result<Committed, StoreError>>, StoreError>;

macro_rules! erased {
    (
        required { $($part:ident {
            $(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*
            $(~ fn $derived:ident($($each:ident: $one:ty),*) -> $all:ty;)*
            $(+ fn $told:ident($($about:ident: $of:ty),*) -> $plain:ty;)?
        })* }
        optional { $($asked:ident, $erased:ident, $ask:ident, $doing:literal { $($methods:tt)* })* }
    ) => {
        /// A [`Store`] with boxed futures: what [`StoreHandle`](super::StoreHandle) keeps and a [`StoreWrapper`](super::StoreWrapper) is
        /// around. Every store has it, and so has every handle.
        pub trait DynStore: Send + Sync + 'static {
            $($(
                #[doc = concat!("See [`", stringify!($part), "::", stringify!($name), "`].")]
                fn $name(&self, $($argument: $type),*) -> BoxFuture<'_, Result<$result, StoreError>>;
            )*
            $(
                #[doc = concat!("See [`", stringify!($part), "::", stringify!($derived), "`].")]
                fn $derived(&self, $($each: $one),*) -> BoxFuture<'_, Result<$all, StoreError>>;
            )*
            $(
                #[doc = concat!("See [`", stringify!($part), "::", stringify!($told), "`].")]
                fn $told(&self, $($about: $of),*) -> $plain;
            )?)*
            /// See [`Journals::commit`]. The future keeps the store.
            fn commit_shared(self: Arc<Self>, batches: Vec<Batch>) -> BoxFuture<'static, Commits>;
            /// See [`Store::close`].
            fn close(&self) -> BoxFuture<'_, Result<(), StoreError>>;
            /// See [`Store::description`].
            fn description(&self) -> String;
            $(
                #[doc = concat!("See [`Store::", stringify!($ask), "`].")]
                fn $ask(&self) -> Option<&dyn $erased>;
            )*
        }

        impl<S: Store> DynStore for S {
            $($(
                fn $name(&self, $($argument: $type),*) -> BoxFuture<'_, Result<$result, StoreError>> {
                    Box::pin($part::$name(self, $($argument),*))
                }
            )*
            $(
                fn $derived(&self, $($each: $one),*) -> BoxFuture<'_, Result<$all, StoreError>> {
                    Box::pin($part::$derived(self, $($each),*))
                }
            )*
            $(
                fn $told(&self, $($about: $of),*) -> $plain {
                    $part::$told(self, $($about),*)
                }
            )?)*

            fn commit_shared(self: Arc<Self>, batches: Vec<Batch>) -> BoxFuture<'static, Commits> {
                Box::pin(async move { Journals::commit(&*self, batches).await })
            }

            fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
                Box::pin(Store::close(self))
            }

            fn description(&self) -> String {
                Store::description(self)
            }

            $(
                fn $ask(&self) -> Option<&dyn $erased> {
                    Store::$ask(self)
                }
            )*
        }
    };
}

with_store_methods!(erased);
