//! How a process was started, so that it can be started again in the same way: program, arguments, its additional
//! environment variables, and folder.

use std::path::PathBuf;
use std::process::Command;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recipe {
    pub(super) program: String,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) folder: PathBuf,
}

impl Recipe {
    /// The recipe of this command.
    pub(super) fn of(command: &Command) -> Self {
        let text = |part: &std::ffi::OsStr| part.to_string_lossy().into_owned();
        let env = command.get_envs().filter_map(|(key, value)| Some((text(key), text(value?))));
        Self {
            program: text(command.get_program()),
            args: command.get_args().map(text).collect(),
            env: env.collect(),
            folder: command.get_current_dir().map(Into::into).unwrap_or_default(),
        }
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(&self.folder);
        command.envs(self.env.iter().map(|(key, value)| (key, value)));
        command
    }

    pub(super) fn env(&self, key: &str) -> Option<&str> {
        self.env.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_makes_the_command_it_was_read_from() {
        let mut command = Command::new("/usr/bin/server");
        command.args(["--save", ""]).env("CLOCK", "/a b/clock").current_dir("/tmp");
        let recipe = Recipe::of(&command);
        assert_eq!(Recipe::of(&recipe.command()), recipe);
        assert_eq!(recipe.env("CLOCK"), Some("/a b/clock"));
        assert_eq!(recipe.args, ["--save", ""]);
    }
}
