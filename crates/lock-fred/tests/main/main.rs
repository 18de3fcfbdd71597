//! Redis as a backend, against a real server.

mod conformance;
