"""Jobs: what is done to more logs than one machine can hold, one file each. `brokerless.spark` has their names."""
