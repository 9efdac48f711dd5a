//! A store around another one.

use std::sync::Arc;

use super::{
    Batch, BoxFuture, CarriedTeam, Claim, Committed, Deleted, Deletion, DynDeletion, DynMembership,
    DynStore, Expiry, Index, Inventory, Journals, MailboxItem, Mailboxes, Membership, Notice,
    RunFilter, RunRow, SessionFilter, SessionRow, State, StateSlot, StateValue, Store, StoreError,
    StoredLine, TreeLine, store_methods::with_store_methods,
};
use crate::vocabulary::{Digest, JournalId, RunId, SessionId, Timestamp};

macro_rules! wrapper {
    (
        required { $($part:ident {
            $(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*
            $(~ fn $derived:ident($($each:ident: $one:ty),*) -> $all:ty;)*
            $(+ fn $told:ident($($about:ident: $of:ty),*) -> $plain:ty;)?
        })* }
        optional { $($asked:ident, $erased:ident, $ask:ident, $doing:literal {
            $(fn $method:ident($($with:ident: $kind:ty),*) -> $answer:ty;)*
        })* }
    ) => {
        /// A store around another one, such as one that counts, delays or refuses calls. What you do not write goes on
        /// to the inner store, fencing and optional parts included. A wrapper is a [`Store`] with all its parts.
        ///
        /// ```
        /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
        /// use ghostlight_actors::{
        ///     actor::System,
        ///     contract::{Batch, Committed, DynStore, StoreError, StoreHandle, StoreWrapper},
        ///     testing::InMemoryStore,
        /// };
        ///
        /// /// A store that counts its commits.
        /// struct Counting {
        ///     inner: StoreHandle,
        ///     commits: AtomicU64,
        /// }
        ///
        /// impl StoreWrapper for Counting {
        ///     fn inner(&self) -> &dyn DynStore {
        ///         &self.inner
        ///     }
        ///
        ///     async fn commit(
        ///         &self,
        ///         batches: Vec<Batch>,
        ///     ) -> Result<Vec<Result<Committed, StoreError>>, StoreError> {
        ///         self.commits.fetch_add(1, Relaxed);
        ///         self.inner.commit(batches).await
        ///     }
        ///
        ///     fn description(&self) -> String {
        ///         format!("{}, counted", self.inner.description())
        ///     }
        /// }
        ///
        /// let inner = StoreHandle::new(InMemoryStore::new());
        /// let builder = System::builder(Counting { inner, commits: AtomicU64::new(0) });
        /// # drop(builder);
        /// ```
        pub trait StoreWrapper: Sized + Send + Sync + 'static {
            /// The store inside.
            fn inner(&self) -> &dyn DynStore;

            /// Makes a call of the inner store: all that are not written otherwise come through here, with the name of
            /// the method. What answers at once ([`term`](Self::term), [`news`](Self::news),
            /// [`description`](Self::description)) does not.
            fn around<T: Send>(
                &self,
                method: &'static str,
                call: BoxFuture<'_, Result<T, StoreError>>,
            ) -> impl Future<Output = Result<T, StoreError>> + Send {
                let _ = method;
                call
            }

            /// See [`Store::close`].
            fn close(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
                self.around("close", self.inner().close())
            }

            /// See [`Store::description`].
            fn description(&self) -> String {
                self.inner().description()
            }

            $($(
                #[doc = concat!("See [`", stringify!($part), "::", stringify!($name), "`].")]
                fn $name(
                    &self,
                    $($argument: $type),*
                ) -> impl Future<Output = Result<$result, StoreError>> + Send {
                    self.around(stringify!($name), self.inner().$name($($argument),*))
                }
            )*
            $(
                #[doc = concat!("See [`", stringify!($part), "::", stringify!($told), "`].")]
                fn $told(&self, $($about: $of),*) -> $plain {
                    self.inner().$told($($about),*)
                }
            )?)*

            /// See [`Journals::claim_all`]. Each claim is one of [`claim`](Self::claim), so that what a wrapper makes of
            /// that holds for all.
            fn claim_all(
                &self,
                journals: Vec<JournalId>,
            ) -> impl Future<Output = Result<Vec<Result<Claim, StoreError>>, StoreError>> + Send {
                async move {
                    let mut claims = Vec::with_capacity(journals.len());
                    for journal in journals {
                        claims.push(StoreWrapper::claim(self, journal, false).await);
                    }
                    Ok(claims)
                }
            }

            /// See [`Journals::read_all`]. Each journal is read with [`read`](Self::read).
            fn read_all(
                &self,
                journals: Vec<JournalId>,
                limit: usize,
            ) -> impl Future<Output = Result<Vec<Result<Vec<StoredLine>, StoreError>>, StoreError>> + Send {
                async move {
                    let mut found = Vec::with_capacity(journals.len());
                    for journal in journals {
                        found.push(StoreWrapper::read(self, journal, 0, limit).await);
                    }
                    Ok(found)
                }
            }

            /// See [`Mailboxes::mailbox`]. The items are those of [`mailbox_after`](Self::mailbox_after).
            fn mailbox(
                &self,
                mailbox: JournalId,
            ) -> impl Future<Output = Result<Vec<MailboxItem>, StoreError>> + Send {
                let items = StoreWrapper::mailbox_after(self, mailbox, 0);
                async { Ok(items.await?.into_iter().map(|(_, item)| item).collect()) }
            }

            $(
                #[doc = concat!("See [`Store::", stringify!($ask), "`]: the wrapper itself, where the inner store has this part.")]
                fn $ask(&self) -> Option<&dyn $erased> {
                    self.inner().$ask().map(|_| self as &dyn $erased)
                }
            )*

            $($(
                #[doc = concat!("See [`", stringify!($asked), "::", stringify!($method), "`].")]
                #[doc = concat!("It is only called where the inner store has [`", stringify!($asked), "`].")]
                fn $method(
                    &self,
                    $($with: $kind),*
                ) -> impl Future<Output = Result<$answer, StoreError>> + Send {
                    let call = match self.inner().$ask() {
                        Some(part) => part.$method($($with),*),
                        None => unsupported(self.description(), $doing),
                    };
                    self.around(stringify!($method), call)
                }
            )*)*
        }

        $(
            impl<W: StoreWrapper> $part for W {
                $(
                    fn $name(
                        &self,
                        $($argument: $type),*
                    ) -> impl Future<Output = Result<$result, StoreError>> + Send {
                        StoreWrapper::$name(self, $($argument),*)
                    }
                )*
                $(
                    fn $derived(
                        &self,
                        $($each: $one),*
                    ) -> impl Future<Output = Result<$all, StoreError>> + Send {
                        StoreWrapper::$derived(self, $($each),*)
                    }
                )*
                $(
                    fn $told(&self, $($about: $of),*) -> $plain {
                        StoreWrapper::$told(self, $($about),*)
                    }
                )?
            }
        )*

        $(
            impl<W: StoreWrapper> $asked for W {
                $(
                    fn $method(
                        &self,
                        $($with: $kind),*
                    ) -> impl Future<Output = Result<$answer, StoreError>> + Send {
                        StoreWrapper::$method(self, $($with),*)
                    }
                )*
            }
        )*

        impl<W: StoreWrapper> Store for W {
            fn close(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
                StoreWrapper::close(self)
            }

            fn description(&self) -> String {
                StoreWrapper::description(self)
            }

            $(
                fn $ask(&self) -> Option<&dyn $erased> {
                    StoreWrapper::$ask(self)
                }
            )*
        }
    };
}

with_store_methods!(wrapper);

/// Refuses a call of a part that a store does not have.
fn unsupported<T: Send>(
    place: String,
    what: &'static str,
) -> BoxFuture<'static, Result<T, StoreError>> {
    Box::pin(async move { Err(StoreError::Unsupported { place, what }) })
}
