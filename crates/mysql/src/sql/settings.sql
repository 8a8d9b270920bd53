-- Of each connection: the statements mean the same whatever the server's defaults are.
SET NAMES utf8mb4;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1, group_concat_max_len = 1048576,
  innodb_lock_wait_timeout = {lock_wait};
SET SESSION TRANSACTION ISOLATION LEVEL {isolation};
