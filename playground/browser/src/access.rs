//! The page for those who see it in another way: axe-core finds no violation. Each look leaves a picture.

use crate::page::{Checking, Page, Result, ensure};

type Check = for<'a> fn(&'a Page, &'a str) -> Checking<'a>;

pub(crate) const ALL: &[(&str, Check)] = &[
    ("axe finds nothing: light", |page, folder| Box::pin(look(page, folder, "light", (1440, 950), "light"))),
    ("axe finds nothing: dark", |page, folder| Box::pin(look(page, folder, "dark", (1440, 950), "dark"))),
    ("axe finds nothing: narrow", |page, folder| Box::pin(look(page, folder, "narrow", (390, 844), "light"))),
    ("axe finds nothing: narrow and dark", |page, folder| {
        Box::pin(look(page, folder, "narrow-dark", (390, 844), "dark"))
    }),
    ("axe finds nothing: wide", |page, folder| Box::pin(look(page, folder, "wide", (2200, 1200), "light"))),
    ("axe finds nothing in the dialogs", |page, folder| Box::pin(dialogs(page, folder))),
];

async fn look(page: &Page, folder: &str, name: &str, size: (u32, u32), theme: &str) -> Result<()> {
    page.size(size.0, size.1).await?;
    for lesson in ["fenced", "failover"] {
        page.load(&format!("#lesson={lesson}&at=150")).await?;
        page.ask(&format!(
            "document.documentElement.dataset.theme = '{theme}'; playground.lanes.isStale = true; playground.seekTime(playground.lanes.end); \
             document.getElementById('as-table').open = document.getElementById('settings').open = true"
        ))
        .await?;
        page.settle().await?;
        axe(page).await?;
        page.ask(
            "document.getElementById('as-table').open = document.getElementById('settings').open = false",
        )
        .await?;
        page.picture(folder, &format!("{name}-{lesson}")).await?;
        let overflow = page
            .number("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
            .await?;
        ensure(overflow <= 0.0, || format!("the page is {overflow} pixels too wide"))?;
    }
    page.size(1440, 950).await
}

async fn dialogs(page: &Page, folder: &str) -> Result<()> {
    for (button, name) in [("help", "help"), ("explore", "explore"), ("share", "share")] {
        page.load("#lesson=fenced&at=150").await?;
        page.click(button).await?;
        axe(page).await?;
        page.picture(folder, &format!("dialog-{name}")).await?;
    }
    Ok(())
}

async fn axe(page: &Page) -> Result<()> {
    page.ask(&format!("{}; return 1", page.axe)).await?;
    let found = page
        .ask_later("axe.run(document, { resultTypes: ['violations'] }).then((result) => done(result.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.target.join(' ') + ' ' + (node.any[0]?.message ?? '')).slice(0, 3).join('; '))), (error) => done([String(error)]))")
        .await?;
    let found = found.as_array().cloned().unwrap_or_default();
    ensure(found.is_empty(), || found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | "))
}
