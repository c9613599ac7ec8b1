//! Inputs that failed once, by what they did.
