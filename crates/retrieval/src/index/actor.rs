//! The actor that serves an index.

use std::{collections::BTreeSet, fmt, sync::Arc};

use parking_lot::{Mutex, RwLock};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::watch;

use super::{
    DocumentRow, Filter, Found, IndexError, IndexStatistics, Query, VectorId,
    file::{Content, IndexFile, Known},
    loaded::Loaded,
};

/// Vectors with their ids.
type KeptVectors = Vec<(VectorId, Vec<f32>)>;

/// The requests to an index.
pub(super) enum Request {
    Search(Query, RpcReplyPort<Result<Vec<Found>, IndexError>>),
    Documents(RpcReplyPort<Result<Vec<DocumentRow>, IndexError>>),
    Statistics(RpcReplyPort<Result<IndexStatistics, IndexError>>),
    /// The known documents of a folder.
    Known(String, RpcReplyPort<Result<Vec<Known>, IndexError>>),
    /// The stored vectors of these texts, by their digests.
    Vectors(
        Arc<[[u8; 32]]>,
        RpcReplyPort<Result<Vec<Option<Vec<f32>>>, IndexError>>,
    ),
    /// Stores a document instead of its earlier version.
    Put(
        Arc<DocumentRow>,
        Arc<[Content]>,
        RpcReplyPort<Result<(), IndexError>>,
    ),
    /// Removes a document.
    Remove(Arc<DocumentRow>, RpcReplyPort<Result<(), IndexError>>),
    /// The ids of the vectors of all passages that a filter admits.
    Within(
        Arc<Filter>,
        RpcReplyPort<Result<BTreeSet<VectorId>, IndexError>>,
    ),
    /// The stored vectors of these ids.
    Kept(
        Arc<[VectorId]>,
        RpcReplyPort<Result<KeptVectors, IndexError>>,
    ),
    /// A task of this life panicked, and may have left its work half done.
    Broken,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Request")
    }
}

/// The state that outlives the actor: the file, the number of the life that may use it, and whether the vectors are in
/// memory.
#[derive(Debug)]
pub(super) struct Book(Mutex<(IndexFile, u64)>, bool);

impl Book {
    pub(super) fn new(file: IndexFile, keeps_vectors: bool) -> Self {
        Self(Mutex::new((file, 0)), keeps_vectors)
    }
}

/// The state that a life shares with its tasks.
#[derive(Debug)]
pub(super) struct Life {
    book: Arc<Book>,
    number: u64,
    loaded: RwLock<Loaded>,
}

impl Life {
    /// Begins a life: loads the file into memory, and bars tasks of earlier lives from it.
    fn begin(book: Arc<Book>) -> Result<Self, IndexError> {
        let mut kept = book.0.lock();
        kept.1 += 1;
        let number = kept.1;
        let loaded = RwLock::new(Loaded::from_file(&mut kept.0, book.1)?);
        drop(kept);
        Ok(Self {
            book,
            number,
            loaded,
        })
    }

    /// Uses the file, unless a later life owns it. Changes by another process are loaded before.
    fn with<T>(
        &self,
        act: impl FnOnce(&mut IndexFile, &RwLock<Loaded>) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        let mut kept = self.book.0.lock();
        if kept.1 != self.number {
            return Err(IndexError::Closed);
        }
        let file = &mut kept.0;
        if file.changed_elsewhere()? {
            let loaded = Loaded::from_file(file, self.book.1)?;
            *self.loaded.write() = loaded;
        }
        act(file, &self.loaded)
    }

    fn search(&self, query: &Query) -> Result<Vec<Found>, IndexError> {
        // The file is locked only for a check of changes, so searches run concurrently.
        self.with(|_, _| Ok(()))?;
        let ranked = self.loaded.read().rank(query)?;
        self.with(|file, _| file.found(ranked, &query.filter))
    }

    fn put(&self, row: &DocumentRow, contents: &[Content]) -> Result<(), IndexError> {
        self.with(|file, loaded| {
            let chunks = file.put(row, contents)?;
            let mut loaded = loaded.write();
            loaded.remove(&row.folder, &row.name);
            loaded.add(row, contents, &chunks)?;
            loaded.make_anew_where_it_pays(file)
        })
    }

    fn remove(&self, row: &DocumentRow) -> Result<(), IndexError> {
        self.with(|file, loaded| {
            file.remove(row)?;
            let mut loaded = loaded.write();
            loaded.remove(&row.folder, &row.name);
            loaded.make_anew_where_it_pays(file)
        })
    }
}

#[derive(Debug)]
pub(super) struct IndexActor;

type Lives = watch::Sender<Option<ActorRef<Request>>>;

impl Actor for IndexActor {
    type Msg = Request;
    type State = Arc<Life>;
    type Arguments = (Arc<Book>, Arc<Lives>);

    async fn pre_start(
        &self,
        myself: ActorRef<Request>,
        (book, lives): Self::Arguments,
    ) -> Result<Arc<Life>, ActorProcessingErr> {
        let life = tokio::task::spawn_blocking(move || Life::begin(book)).await??;
        lives.send_replace(Some(myself));
        Ok(Arc::new(life))
    }

    async fn handle(
        &self,
        myself: ActorRef<Request>,
        request: Request,
        life: &mut Arc<Life>,
    ) -> Result<(), ActorProcessingErr> {
        let life = life.clone();
        match request {
            Request::Broken => return Err("a task of the index panicked".into()),
            Request::Search(query, port) => serve(myself, port, move || life.search(&query)),
            Request::Documents(port) => {
                serve(myself, port, move || life.with(|file, _| file.documents()));
            }
            Request::Statistics(port) => serve(myself, port, move || {
                life.with(|file, loaded| loaded.read().statistics(file))
            }),
            Request::Known(folder, port) => {
                serve(myself, port, move || {
                    life.with(|file, _| file.known(&folder))
                });
            }
            Request::Vectors(digests, port) => {
                serve(myself, port, move || {
                    life.with(|file, _| file.vectors(&digests))
                });
            }
            Request::Within(filter, port) => serve(myself, port, move || {
                life.with(|_, loaded| Ok(loaded.read().within(&filter)))
            }),
            Request::Kept(ids, port) => serve(myself, port, move || {
                life.with(|file, loaded| loaded.read().kept(&ids, file))
            }),
            Request::Put(row, contents, port) => {
                serve(myself, port, move || life.put(&row, &contents))
            }
            Request::Remove(row, port) => serve(myself, port, move || life.remove(&row)),
        }
        Ok(())
    }
}

/// Does slow work without blocking the mailbox or the runtime.
fn serve<T: Send + 'static>(
    actor: ActorRef<Request>,
    port: RpcReplyPort<Result<T, IndexError>>,
    work: impl FnOnce() -> Result<T, IndexError> + Send + 'static,
) {
    tokio::spawn(async move {
        match tokio::task::spawn_blocking(work).await {
            // The caller may have gone; a request that a closed index does not answer is answered by its next life.
            Ok(Err(IndexError::Closed)) => {}
            Ok(answer) => drop(port.send(answer)),
            Err(_) => drop(actor.cast(Request::Broken)),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chunking::Chunk,
        index::{DocumentStatus, file::Place},
    };

    fn row(name: &str) -> DocumentRow {
        DocumentRow {
            folder: String::from("docs"),
            name: name.to_owned(),
            title: None,
            bytes: 0,
            modified: 0,
            digest: [0; 32],
            tag: None,
            metadata: Default::default(),
            cut: String::new(),
            status: DocumentStatus::Indexed,
        }
    }

    fn life(names: &[&str]) -> Life {
        let file = IndexFile::open(&Place::Memory, None, true).unwrap();
        let life = Life::begin(Arc::new(Book::new(file, true))).unwrap();
        names.iter().for_each(|name| put(&life, name));
        life
    }

    /// A document that says its own name.
    fn put(life: &Life, name: &str) {
        let text = format!("parcels of {name}");
        let chunk = Chunk {
            range: 0..text.len(),
            line: 1,
            headings: Arc::from([]),
            text,
        };
        let content = Content {
            chunk,
            digest: [0; 32],
            vector: None,
            context: None,
        };
        life.put(&row(name), &[content]).unwrap();
    }

    /// Changes the file as another process does, between the ranking of a query and the reading of what it found.
    fn found_after(life: &Life, query: &Query, change: impl Fn(&Life)) -> Vec<Found> {
        let ranked = life.loaded.read().rank(query).unwrap();
        change(life);
        life.with(|file, loaded| {
            *loaded.write() = Loaded::from_file(file, true)?;
            file.found(ranked, &query.filter)
        })
        .unwrap()
    }

    #[test]
    fn a_passage_is_told_under_its_own_name_though_the_index_was_loaded_again_meanwhile() {
        let life = life(&["a.txt", "b.txt", "c.txt"]);
        let found = found_after(&life, &Query::new("parcels"), |life| {
            life.remove(&row("a.txt")).unwrap();
        });
        assert_eq!(found.len(), 2);
        for found in found {
            assert_eq!(found.text, format!("parcels of {}", found.document));
        }
    }

    #[test]
    fn a_passage_that_took_the_number_of_a_removed_one_does_not_pass_the_filter_in_its_place() {
        let life = life(&["public/a.txt"]);
        let filter = Filter {
            under: vec![String::from("public/")],
            ..Filter::default()
        };
        let query = Query::new("parcels").filter(filter);
        let found = found_after(&life, &query, |life| {
            life.remove(&row("public/a.txt")).unwrap();
            put(life, "secret/b.txt");
        });
        assert_eq!(found, []);
    }
}
