"""What Hypothesis draws for tests of random schemas."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# Schemas shrink; the values come from a seed.
drawn = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
)
random_choices = st.randoms(use_true_random=False)
