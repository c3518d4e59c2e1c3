"""Settings of every test: laws are checked without a time limit per example, since machines differ."""

from hypothesis import HealthCheck, settings

settings.register_profile("gristmill", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gristmill")
