"""The checks of `ckptd doctor`: what the daemon depends on, seen from the accounts that use it."""
