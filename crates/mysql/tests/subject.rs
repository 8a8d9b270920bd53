//! The unit tests of what the suite knows of a MySQL.

#[allow(dead_code)] // the program `contract` uses it
#[path = "contract/subject/mod.rs"]
mod subject;
