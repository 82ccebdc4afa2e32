"""What operators can do and ask, carried out against the actors.

`interface` says what there is. The admin API, SEMP and the console go through it, and reach no actor past it."""
