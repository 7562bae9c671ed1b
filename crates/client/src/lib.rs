//! One connection to a broker, from a thread that waits: for bridges and the command line.
