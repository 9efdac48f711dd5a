//! Agents on the network: one HTTP core, and the protocols that clients of agents speak.
