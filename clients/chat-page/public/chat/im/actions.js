/** What a machine is made with, is asked, and wants done outside. It decides nothing. */
export {};
