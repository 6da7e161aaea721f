//! Tandem broker and name server.
