"""Who is online, in memory and in a real Redis that is stopped, killed and emptied on purpose."""
