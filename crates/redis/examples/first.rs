//! A first program: takes a lock in Redis, shows its line, and gives it back.

#[tokio::main]
async fn main() -> tidelock_redis::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1".into());
    let locks = tidelock_redis::connect(&url).await?;
    let guard = locks.mutex("stock:42")?.lock().await?;
    println!("held under token {}", guard.token());
    println!("{:?}", locks.inspect("stock:42").await?);
    guard.release().await?;
    locks.close().await
}
