//! The Model Context Protocol: tools of its servers for agents, and agents as a server.
