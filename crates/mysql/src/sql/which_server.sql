-- Which server this is: of two servers with the same data at least one of these differs. A restart changes none of them.
SELECT 'S', CONCAT_WS(' ', @@GLOBAL.server_id, @@GLOBAL.hostname, @@GLOBAL.port, @@GLOBAL.datadir);
