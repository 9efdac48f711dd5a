//! Agents on the network: one HTTP core, and the protocols of clients.
//!
//! It is the package `ghostlight-server`. `ghostlight serve --listen` and `ghostlight store open` use it,
//! with the [page](page::FILES) for people from the package `ghostlight-page`.

pub use ghostlight_server::*;

pub mod page {
    //! The page on which people watch agents and step in: files for
    //! [`Server::page`](super::Server::page).

    pub use ghostlight_page::*;
}
