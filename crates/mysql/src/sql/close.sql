DELETE FROM tidelock_session WHERE id = {me};
DELETE FROM tidelock_bell WHERE session = {me};
