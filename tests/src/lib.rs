//! What the whole-system suites share: processes, clusters, foreign clients.
