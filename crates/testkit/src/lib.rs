//! Tests only: puppet process, throwaway engine, test points.
