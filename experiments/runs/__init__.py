"""Many runs: a store of finished ones, and workers for the others; campaigns, surveys and the paper are plans."""
