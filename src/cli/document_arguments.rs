//! The arguments of the commands that index and search documents.

use std::path::PathBuf;

use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};

use super::arguments::ShowArguments;

#[derive(Debug, Subcommand)]
pub(super) enum Documents {
    /// Bring an index up to folders of documents, and to rows of a database
    Index(IndexArguments),
    /// Search the documents of an index
    Search(SearchArguments),
    /// Read a PDF from stdin, as other processes of this command have it done
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
    /// What makes vectors: `lexical`, which compares words and letters and needs no model, `local:FOLDER` for a sentence
    /// encoder such as all-MiniLM-L6-v2, or `openai:MODEL:DIMENSION`
    /// at OPENAI_BASE_URL [default: lexical, or GHOSTLIGHT_EMBEDDER]
    #[arg(long, value_name = "EMBEDDER", value_parser = NonEmptyStringValueParser::new())]
    pub(super) embedder: Option<String>,
}

#[cfg(feature = "tools")]
const ORIGINS: [&str; 2] = ["database", "pages"];
#[cfg(not(feature = "tools"))]
const ORIGINS: [&str; 1] = ["database"];

#[derive(Debug, Args)]
pub(super) struct IndexArguments {
    /// The folders; what is hidden, ignored by a .gitignore, or a link is passed over
    #[arg(required_unless_present_any = ORIGINS, value_name = "FOLDER")]
    pub(super) folders: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) file: IndexFile,
    /// A SQLite database whose rows are documents; it is only read
    #[arg(long, value_name = "FILE", requires = "select")]
    pub(super) database: Option<PathBuf>,
    /// Which rows: a SELECT of two columns, the name of a document and its text, which may be Markdown
    #[arg(long, value_name = "SELECT", requires = "database")]
    pub(super) select: Option<String>,
    /// A page of the web; it is asked for again only if it has changed. Pages of an earlier call that are not named again
    /// are removed
    #[cfg(feature = "tools")]
    #[arg(long = "url", value_name = "URL")]
    pub(super) pages: Vec<String>,
    /// An address or network that pages may be read from although it is not public, such as 10.1.0.0/16
    #[cfg(feature = "tools")]
    #[arg(long, value_name = "NETWORK", requires = "pages")]
    pub(super) allow_address: Vec<String>,
    /// Read pages also where the site asks robots not to
    #[cfg(feature = "tools")]
    #[arg(long, requires = "pages")]
    pub(super) ignore_robots: bool,
    /// Only files whose names end so, such as .md
    #[arg(long, value_name = "ENDING")]
    pub(super) only: Vec<String>,
    /// Empty an index that was made with another embedder, and fill it again
    #[arg(long)]
    pub(super) empty: bool,
    /// Stay, and follow the folders until Ctrl-C
    #[arg(long)]
    pub(super) watch: bool,
    /// Say how large the index is
    #[arg(long)]
    pub(super) statistics: bool,
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
    /// Rank by words alone
    #[arg(long, conflicts_with = "vectors")]
    pub(super) words: bool,
    /// Rank by vectors alone
    #[arg(long)]
    pub(super) vectors: bool,
    /// Read a part of the vectors only, where there are very many
    #[arg(long)]
    pub(super) approximate: bool,
    /// Put what was found in order once more, by how its words stand
    #[arg(long)]
    pub(super) rerank: bool,
    /// How much it counts that results are unlike each other, from 0 to 1
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub(super) diversity: f64,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}
