//! Reading, cutting, indexing and searching of documents.
