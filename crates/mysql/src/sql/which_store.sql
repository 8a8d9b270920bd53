-- Inside the user's transaction: of which store it is.
SELECT store FROM `{database}`.tidelock_version WHERE version = {version};
