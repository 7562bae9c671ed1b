"""Accounts and the archive of messages in a real MariaDB, which is killed and paused on purpose."""
