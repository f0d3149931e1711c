"""Many runs: a store of what is done, and workers for what is not; campaigns, surveys and the paper are plans of it."""
