//! `cargo xtask playground`: builds the page, and serves it on 127.0.0.1 or puts it into a folder.

pub(crate) mod browser;
mod build;
mod serve;

use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::Parser;
use lexopt::prelude::*;

pub(crate) use build::build;
pub(crate) use serve::Served;

use crate::place::{self, Scratch};
use crate::setup::rust::{self, RustPart};
use crate::trouble::Result;
use crate::workspace::Workspace;

const HELP: &str = "\
Builds the playground, serves it on 127.0.0.1, and prints the address.

Usage: cargo xtask playground [--port PORT] [--build DIR]

  --port PORT   serve on this port; without it, on a free one
  --build DIR   only write the folder of static files: any web server can serve it, from any path";

pub(crate) fn main(mut flags: Parser) -> Result<ExitCode> {
    let (mut folder, mut port) = (None, 0);
    while let Some(flag) = flags.next()? {
        match flag {
            Short('h') | Long("help") => return Ok(crate::help(HELP)),
            Long("build") => folder = Some(PathBuf::from(flags.value()?)),
            Long("port") => port = flags.value()?.parse()?,
            other => return Err(other.unexpected().into()),
        }
    }
    let root = place::root()?;
    let web = RustPart::Target(rust::WEB);
    let workspace = Workspace::load()?;
    if !web.is_here(&workspace)? {
        rust::install(&workspace, &[web])?;
    }
    if let Some(folder) = folder {
        build(&root, &folder)?;
        println!("the playground is in {}", folder.display());
        return Ok(ExitCode::SUCCESS);
    }
    let scratch = Scratch::new("playground")?;
    build(&root, scratch.path())?;
    let served = Served::on(port, "/", scratch.path())?;
    println!("the playground is at {} (Ctrl-C ends it)", served.url());
    served.wait();
    Ok(ExitCode::SUCCESS)
}
