//! Recognizes the kind of a server by its first words: a wrong port leads to another kind than the expected one.

/// The kind of server that says this when spoken to: `an etcd`, `a Redis`; `None` if it is not known.
///
/// Send a request that the expected server understands, then `GET /version HTTP/1.1` if no answer comes.
#[must_use]
pub fn server_kind(said: &[u8]) -> Option<&'static str> {
    const GREETING: [u8; 2] = [0, 10]; // protocol 10, after a length of three bytes
    const ALERT: [u8; 2] = [21, 3];
    let text = String::from_utf8_lossy(said);
    let begins = |words: &[&str]| words.iter().any(|word| text.starts_with(word));
    if begins(&["HTTP/"]) {
        Some(if text.contains("etcdserver") { "an etcd" } else { "a web server" })
    } else if begins(&["-ERR", "-NOAUTH", "-DENIED"]) {
        Some("a Redis")
    } else if begins(&["Zookeeper version", "This ZooKeeper instance"]) || text.contains("in the whitelist") {
        Some("a ZooKeeper")
    } else if begins(&["SSH-"]) {
        Some("an SSH server")
    } else if said.get(3..5) == Some(&GREETING) {
        Some("a MySQL or a MariaDB")
    } else if said.starts_with(&ALERT) {
        Some("something that speaks TLS")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_called_by_their_names() {
        let zookeeper: [&[u8]; 3] = [
            b"Zookeeper version: 3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2022-02-25\n",
            b"srvr is not executed because it is not in the whitelist.\n",
            b"This ZooKeeper instance is not currently serving requests\n",
        ];
        for said in zookeeper {
            assert_eq!(server_kind(said), Some("a ZooKeeper"));
        }
        assert_eq!(
            server_kind(b"-ERR unknown command 'srvr', with args beginning with:\r\n"),
            Some("a Redis")
        );
        assert_eq!(server_kind(b"HTTP/1.1 200 OK\r\n\r\n{\"etcdserver\":\"3.4.23\"}"), Some("an etcd"));
        assert_eq!(server_kind(b"HTTP/1.1 400 Bad Request"), Some("a web server"));
        assert_eq!(
            server_kind(b"\x5b\x00\x00\x00\x0a5.5.5-10.11.19-MariaDB\x00"),
            Some("a MySQL or a MariaDB")
        );
        assert_eq!(server_kind(b"\x15\x03\x03\x00\x02\x02\x46"), Some("something that speaks TLS"));
        assert_eq!(server_kind(b"SSH-2.0-OpenSSH_9.2\r\n"), Some("an SSH server"));
        assert_eq!(server_kind(b"hello"), None);
    }
}
