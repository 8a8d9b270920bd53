DELETE FROM tidelock_session WHERE id = {me};
DELETE FROM tidelock_bell WHERE session = {me};
DELETE FROM tidelock_claim WHERE session = {me};
