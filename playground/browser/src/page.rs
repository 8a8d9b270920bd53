//! The page in a browser: what the checks do with it, in few words. Waits are for a condition, with a bound.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::time::{Duration, Instant};

use serde_json::Value;
use thirtyfour::common::capabilities::chromium::ChromiumLikeCapabilities;
use thirtyfour::prelude::*;

pub(crate) type Error = Box<dyn std::error::Error>;
pub(crate) type Result<T> = std::result::Result<T, Error>;
/// A check that is under way.
pub(crate) type Checking<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// How long anything on the page may take.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Page {
    driver: WebDriver,
    url: String,
    /// The text of axe-core, for the checks of accessibility.
    pub(crate) axe: String,
}

impl Page {
    /// Opens a browser of this size; the page is not loaded yet.
    pub(crate) async fn open(driver: &str, url: &str, width: u32, height: u32) -> Result<Self> {
        let mut wishes = DesiredCapabilities::chrome();
        let size = format!("--window-size={width},{height}");
        for flag in
            ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en", &size]
        {
            wishes.add_arg(flag)?;
        }
        wishes.set("goog:loggingPrefs", serde_json::json!({ "browser": "ALL" }))?;
        let driver = WebDriver::new(driver, wishes).await?;
        driver.set_script_timeout(Duration::from_secs(120)).await?;
        Ok(Self { driver, url: url.to_owned(), axe: String::new() })
    }

    /// Loads the page afresh, with what is behind the `#`.
    pub(crate) async fn load(&self, hash: &str) -> Result<()> {
        self.driver.goto("about:blank").await?;
        self.driver.goto(format!("{}{hash}", self.url)).await?;
        self.until("the page has begun", "return Boolean(window.playground?.state.tracks.length)").await
    }

    /// Loads the page from the folder that has no module.
    pub(crate) async fn load_broken(&self) -> Result<()> {
        Ok(self.driver.goto(format!("{}broken/index.html", self.url)).await?)
    }

    pub(crate) async fn size(&self, width: u32, height: u32) -> Result<()> {
        Ok(self.driver.set_window_rect(0, 0, width, height).await?)
    }

    /// What this script returns.
    pub(crate) async fn ask(&self, script: &str) -> Result<Value> {
        Ok(self.driver.execute(script, Vec::new()).await?.json().clone())
    }

    /// The text that this script returns.
    pub(crate) async fn said(&self, script: &str) -> Result<String> {
        Ok(self.ask(script).await?.as_str().unwrap_or_default().to_owned())
    }

    /// Lets the run play by itself to its end, quickly.
    pub(crate) async fn play_out(&self) -> Result<()> {
        self.ask("document.getElementById('speed').value = 4; playground.play(true)").await?;
        self.until(
            "the run has ended",
            "return !playground.state.plays && playground.state.now >= playground.lanes.end",
        )
        .await?;
        self.settle().await
    }

    /// The same from shortly before its end, where nothing more happens in most runs.
    pub(crate) async fn play_its_end(&self) -> Result<()> {
        self.ask("playground.seekTime(playground.lanes.end - 40)").await?;
        self.settle().await?;
        self.play_out().await
    }

    /// What this script passes to `done`.
    pub(crate) async fn ask_later(&self, script: &str) -> Result<Value> {
        let script = format!("const done = arguments[arguments.length - 1]; {script}");
        Ok(self.driver.execute_async(script, Vec::new()).await?.json().clone())
    }

    pub(crate) async fn number(&self, script: &str) -> Result<f64> {
        self.ask(script).await?.as_f64().ok_or_else(|| format!("no number: {script}").into())
    }

    pub(crate) async fn text(&self, id: &str) -> Result<String> {
        self.said(&format!("return document.getElementById('{id}').textContent.trim()")).await
    }

    /// Waits until this script returns true.
    pub(crate) async fn until(&self, what: &str, script: &str) -> Result<()> {
        let began = Instant::now();
        while self.ask(script).await?.as_bool() != Some(true) {
            if began.elapsed() > PATIENCE {
                return Err(format!("not within {} s: {what}", PATIENCE.as_secs()).into());
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        Ok(())
    }

    /// Waits until a frame has shown the present moment.
    pub(crate) async fn settle(&self) -> Result<()> {
        self.ask_later(
            "requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))",
        )
        .await?;
        Ok(())
    }

    /// Presses a key, on whatever has the focus.
    pub(crate) async fn press(&self, key: impl AsRef<str>) -> Result<()> {
        self.driver.action_chain().send_keys(key.as_ref()).perform().await?;
        self.settle().await
    }

    pub(crate) async fn click(&self, id: &str) -> Result<()> {
        self.driver.find(By::Id(id)).await?.click().await?;
        self.settle().await
    }

    pub(crate) async fn picture(&self, folder: &str, name: &str) -> Result<()> {
        self.settle().await?;
        Ok(self.driver.screenshot(&Path::new(folder).join(format!("{name}.png"))).await?)
    }

    /// No error or warning since the last look.
    pub(crate) async fn console_is_empty(&self) -> Result<()> {
        let entries = self.driver.browser_log().await?;
        let first = entries.iter().map(|entry| format!("{entry:?}")).next();
        first.map_or(Ok(()), |entry| Err(entry.into()))
    }

    /// Forgets what the console says: the check has caused it on purpose.
    pub(crate) async fn clear_console(&self) -> Result<usize> {
        Ok(self.driver.browser_log().await?.len())
    }

    pub(crate) async fn quit(self) -> Result<()> {
        Ok(self.driver.quit().await?)
    }
}

/// An error with both, if they differ.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, wanted: &T) -> Result<()> {
    if found == wanted { Ok(()) } else { Err(format!("{what}: {found:?} instead of {wanted:?}").into()) }
}

/// An error with this sentence, unless it is so.
pub(crate) fn ensure(is_so: bool, sentence: impl FnOnce() -> String) -> Result<()> {
    if is_so { Ok(()) } else { Err(sentence().into()) }
}
