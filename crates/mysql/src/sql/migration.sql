-- The tables of Tidelock, version 1. Names are bytes, so that no collation takes two names for one. A name in a table
-- is NAMESPACE, a zero byte, and the lock's name. Times are microseconds since 1970 by the server's clock, tokens are
-- units of ten of them. state: 0 holds, 1 waits, 2 void (its join must not take effect any more). A holder with
-- a slot whose stamp is not its mark has left: the user's transaction that it was inside was committed. Behind the only
-- holder of a mutex the first waiters are in the holder's row, each as SINCE.SESSION.NUMBER: with 16 and 20 digits. The rows of
-- tidelock_slot are all here from the beginning: where no row comes or goes, a row that is locked never stands for a gap
-- beside it; and none of them is inserted again, which would wait for a transaction that has it. No token of a name that
-- has no row is greater than that of tidelock_floor. `store` is a random number, and so another one wherever these tables are
-- made. Transactions of users have locks in share mode on that row: nothing may change it.
CREATE TABLE IF NOT EXISTS tidelock_version (
  version INT UNSIGNED NOT NULL PRIMARY KEY,
  store BIGINT UNSIGNED NOT NULL
) ENGINE=InnoDB;
CREATE TABLE IF NOT EXISTS tidelock_session (
  id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  ttl BIGINT UNSIGNED NOT NULL,
  expires BIGINT UNSIGNED NOT NULL,
  label VARBINARY(1024) NOT NULL
) ENGINE=InnoDB;
CREATE TABLE IF NOT EXISTS tidelock_bell (
  session BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  rung BIGINT UNSIGNED NOT NULL
) ENGINE=InnoDB;
CREATE TABLE IF NOT EXISTS tidelock_line (
  name VARBINARY(700) NOT NULL PRIMARY KEY,
  kind TINYINT UNSIGNED NOT NULL,
  capacity INT UNSIGNED NOT NULL,
  token BIGINT UNSIGNED NOT NULL,
  place BIGINT UNSIGNED NOT NULL DEFAULT 0,
  spilled TINYINT UNSIGNED NOT NULL DEFAULT 0,
  session BIGINT UNSIGNED NOT NULL DEFAULT 0,
  number BIGINT UNSIGNED NOT NULL DEFAULT 0,
  weight INT UNSIGNED NOT NULL DEFAULT 0,
  since BIGINT UNSIGNED NOT NULL DEFAULT 0,
  waiters VARBINARY(6000) NOT NULL DEFAULT ''
) ENGINE=InnoDB;
CREATE TABLE IF NOT EXISTS tidelock_claim (
  name VARBINARY(700) NOT NULL,
  state TINYINT UNSIGNED NOT NULL,
  place BIGINT UNSIGNED NOT NULL,
  session BIGINT UNSIGNED NOT NULL,
  number BIGINT UNSIGNED NOT NULL,
  weight INT UNSIGNED NOT NULL,
  token BIGINT UNSIGNED NOT NULL,
  since BIGINT UNSIGNED NOT NULL,
  slot INT UNSIGNED NOT NULL DEFAULT 0,
  mark BIGINT UNSIGNED NOT NULL DEFAULT 0,
  PRIMARY KEY (name, state, place, session),
  UNIQUE KEY claim (session, number)
) ENGINE=InnoDB;
CREATE TABLE IF NOT EXISTS tidelock_slot (
  slot INT UNSIGNED NOT NULL PRIMARY KEY,
  stamp BIGINT UNSIGNED NOT NULL,
  session BIGINT UNSIGNED NOT NULL,
  number BIGINT UNSIGNED NOT NULL
) ENGINE=InnoDB;
SELECT COUNT(*) INTO @tidelock_slots FROM tidelock_slot;
INSERT IGNORE INTO tidelock_slot (slot, stamp, session, number)
WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 63)
SELECT 1 + a.n + 64 * b.n, 0, 0, 0 FROM n a, n b WHERE COALESCE(@tidelock_slots, 0) < 4096;
CREATE TABLE IF NOT EXISTS tidelock_floor (
  id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
  token BIGINT UNSIGNED NOT NULL
) ENGINE=InnoDB;
INSERT IGNORE INTO tidelock_floor (id, token) VALUES (1, 0);
INSERT IGNORE INTO tidelock_version (version, store) VALUES (1, FLOOR(1 + RAND() * 1000000000000000));
