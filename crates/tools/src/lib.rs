//! Tools for files, processes and the network, each confined.
