"""How the trusted process talks to a jail, and how little of it is believed."""
