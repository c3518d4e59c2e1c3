"""The interlingua and every other row type: typed, frozen, without behaviour."""
