/* What goes wrong. */
#pragma once

/* One fault, any that there is; and when the next one comes, if any is left. */
void fault_any(void);
/* An operator takes back all orders. */
void fault_take_back_orders(void);
