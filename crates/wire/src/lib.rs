//! What crosses a socket, versioned.
