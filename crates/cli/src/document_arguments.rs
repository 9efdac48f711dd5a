//! The arguments of the commands that index and search documents.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, builder::NonEmptyStringValueParser};

use super::{arguments::ShowArguments, memory_arguments::share};

#[derive(Debug, Subcommand)]
pub(super) enum Documents {
    /// Bring an index up to folders of documents, and to rows of a database
    Index(IndexArguments),
    /// Search the documents of an index
    Search(SearchArguments),
    /// Read a PDF from stdin, for other processes of this command
    #[command(hide = true)]
    ReadPdf,
}

/// Which index.
#[derive(Clone, Debug, Args)]
pub(super) struct IndexFile {
    /// The file of the index, which can be deleted at any time [default: documents.index in the user's data directory,
    /// or GHOSTLIGHT_INDEX]
    #[arg(long, value_name = "FILE")]
    pub(super) index: Option<PathBuf>,
    /// The source of vectors: `lexical`, which compares words and letters and needs no model, `local:FOLDER` for a sentence
    /// encoder such as all-MiniLM-L6-v2, or `openai:MODEL:DIMENSION`
    /// at OPENAI_BASE_URL [default: lexical, or GHOSTLIGHT_EMBEDDER]
    #[arg(long, value_name = "EMBEDDER", value_parser = NonEmptyStringValueParser::new())]
    pub(super) embedder: Option<String>,
    /// The address of a PostgreSQL database with pgvector that keeps the vectors, and not the memory of this process
    /// [default: GHOSTLIGHT_VECTORS, which hides a password from other users of the machine]
    #[arg(long, value_name = "URL")]
    pub(super) vector_store: Option<String>,
    /// The table of the vectors there, one for each index [default: ghostlight_vectors]
    #[arg(long, value_name = "TABLE")]
    pub(super) vector_table: Option<String>,
}

const ORIGINS: [&str; 4] = ["database", "pages", "add", "remove"];

#[derive(Debug, Args)]
pub(super) struct IndexArguments {
    /// The folders; hidden files, files that a .gitignore names, and links are passed over
    #[arg(required_unless_present_any = ORIGINS, value_name = "FOLDER")]
    pub(super) folders: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) file: IndexFile,
    /// A SQLite database whose rows are documents; it is only read
    #[arg(long, value_name = "FILE", requires = "select")]
    pub(super) database: Option<PathBuf>,
    /// Which rows: a SELECT of two columns, the name of a document and its text, which may be Markdown; further columns
    /// are properties for `search --having`
    #[arg(long, value_name = "SELECT", requires = "database")]
    pub(super) select: Option<String>,
    /// A page of the web; it is asked for again only if it has changed. Pages of an earlier call that are not named again
    /// are removed
    #[arg(long = "url", value_name = "URL")]
    pub(super) pages: Vec<String>,
    /// An address or network that is not public, from which pages may be read nevertheless, such as 10.1.0.0/16
    #[arg(long, value_name = "NETWORK", requires = "pages")]
    pub(super) allow_address: Vec<String>,
    /// Read pages even where the site asks robots not to
    #[arg(long, requires = "pages")]
    pub(super) ignore_robots: bool,
    /// Only files whose names have this ending, such as .md
    #[arg(long, value_name = "ENDING")]
    pub(super) only: Vec<String>,
    /// Files and folders that are left out, as in a .gitignore: drafts/, *.tmp
    #[arg(long, value_name = "PATTERN")]
    pub(super) exclude: Vec<String>,
    /// The most characters of a passage, 100 to 20,000 [default: 1500]
    #[arg(long, value_name = "NUMBER")]
    pub(super) chunk_size: Option<usize>,
    /// How many characters of the passage before it each begins with, at most half of the size
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(super) overlap: usize,
    /// The boundaries at which texts are cut [default: those that each document has]
    #[arg(long, value_name = "STRUCTURE")]
    pub(super) chunk_by: Option<ChunkBy>,
    /// Put the text on stdin, which may be Markdown, into the index under this name
    #[arg(long, value_name = "NAME", conflicts_with = "watch")]
    pub(super) add: Option<String>,
    /// Remove the text of this name that `--add` or an agent has put into the index
    #[arg(long, value_name = "NAME", conflicts_with_all = ["watch", "add"])]
    pub(super) remove: Option<String>,
    /// Empty an index that was made with another embedder, and fill it again
    #[arg(long)]
    pub(super) empty: bool,
    /// Follow the folders until Ctrl-C
    #[arg(long)]
    pub(super) watch: bool,
    /// Print the size of the index
    #[arg(long)]
    pub(super) statistics: bool,
}

/// The boundaries at which texts are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ChunkBy {
    /// Sections and blocks of Markdown.
    Markdown,
    /// Items of source code.
    Code,
    /// Paragraphs and lines.
    Text,
    /// Whole sentences.
    Sentences,
}

fn property(text: &str) -> Result<(String, String), String> {
    let pair = text
        .split_once('=')
        .map(|(name, value)| (name.trim(), value.trim()));
    let pair = pair.filter(|(name, value)| !name.is_empty() && !value.is_empty());
    let (name, value) = pair.ok_or("it is a name and a value, such as team=legal")?;
    Ok((name.to_lowercase(), value.to_owned()))
}

#[derive(Debug, Args)]
pub(super) struct SearchArguments {
    /// A question, or words of the answer
    pub(super) query: String,
    #[command(flatten)]
    pub(super) file: IndexFile,
    /// How many passages
    #[arg(long, short = 'n', default_value_t = 5, value_name = "NUMBER")]
    pub(super) limit: usize,
    /// Only in this folder, as it was indexed
    #[arg(long, value_name = "FOLDER")]
    pub(super) folder: Option<PathBuf>,
    /// Only in documents whose path in the folder begins so
    #[arg(long, value_name = "PATH")]
    pub(super) under: Vec<String>,
    /// Only in documents with this property, such as team=legal: one of the front matter, of a database's further columns,
    /// or of the program that added them. Several values of one name are alternatives
    #[arg(long, value_name = "NAME=VALUE", value_parser = property)]
    pub(super) having: Vec<(String, String)>,
    /// Rank by words alone
    #[arg(long, conflicts_with = "vectors")]
    pub(super) words: bool,
    /// Rank by vectors alone
    #[arg(long)]
    pub(super) vectors: bool,
    /// Read a part of the vectors only, where there are very many
    #[arg(long)]
    pub(super) approximate: bool,
    /// Rank the results once more, by the places of their words
    #[arg(long)]
    pub(super) rerank: bool,
    /// The weight of variety among results, from 0 to 1
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", value_parser = share)]
    pub(super) diversity: f64,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}
