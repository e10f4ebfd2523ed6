//! How many retries the recipient waits for.
