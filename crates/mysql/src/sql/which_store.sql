-- Inside the user's transaction: of which store it is, and on which server, as replication copies the store's number. It
-- begins no snapshot there (see inside).
SELECT store, @@GLOBAL.server_id FROM `{database}`.tidelock_version WHERE version = {version} LOCK IN SHARE MODE;
