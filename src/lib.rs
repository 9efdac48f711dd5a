//! Teams of LLM agents as supervised actors that survive anything.
