//! x y z w.
