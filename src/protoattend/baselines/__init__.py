"""The methods ProtoAttend is compared with."""
