"""lbd: load-balancing daemons for a few to a few hundred Linux hosts."""

__version__ = "0.1.0"
