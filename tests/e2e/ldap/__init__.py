"""Logins that a real OpenLDAP server checks, which is killed and paused on purpose."""
