-- Of each connection: the statements mean the same whatever the server's defaults are.
SET NAMES utf8mb4;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1, group_concat_max_len = 1048576,
  innodb_lock_wait_timeout = {lock_wait}, lock_wait_timeout = {lock_wait}, completion_type = 0, sql_safe_updates = 0, sql_big_selects = 1,
  sql_select_limit = 18446744073709551615;
SET SESSION TRANSACTION ISOLATION LEVEL {isolation}, READ WRITE;
