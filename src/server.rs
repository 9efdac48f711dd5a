//! Agents on the network: one HTTP core, and the protocols that clients of agents speak.
//!
//! It is the package `ghostlight-server`. `ghostlight serve --listen` and `ghostlight open` are made of it, with the
//! [page](page::FILES) of the package `ghostlight-page` for people.

pub use ghostlight_server::*;

pub mod page {
    //! The page on which people see agents at work and step in: files for [`Server::page`](super::Server::page).

    pub use ghostlight_page::*;
}
