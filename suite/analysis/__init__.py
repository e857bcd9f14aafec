"""Pure functions of records: nothing here touches hardware or measures."""
